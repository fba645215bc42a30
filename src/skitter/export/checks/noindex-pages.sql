-- title: Pages that ask not to be indexed
-- about: Pages with noindex, in their HTML or in an X-Robots-Tag.
-- advice: Check that each of them is meant.
-- group: What search engines are told
-- kind: problem
select url, title, depth from html_pages where not robots_index order by url
