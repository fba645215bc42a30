-- title: Pages without links
-- about: HTML pages that link to nothing.
-- advice: Give visitors a way on, at least to the start page.
-- group: Structure
-- kind: problem
select url, title from html_pages where links_count = 0 order by url
