-- title: Pages without a description
-- about: HTML pages without a meta description that may be indexed.
-- advice: Write one or two sentences: search results show them.
-- group: Titles and descriptions
-- kind: problem
select url, title from html_pages where description is null and robots_index order by url
