-- title: Pages without a language
-- about: HTML pages that do not say which language they are in.
-- advice: Set the attribute lang of the html element: screen readers and translators need it.
-- group: What search engines are told
-- kind: problem
select url, title from html_pages where language is null order by url
