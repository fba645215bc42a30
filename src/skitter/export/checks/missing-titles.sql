-- title: Pages without a title
-- about: HTML pages that have no title.
-- advice: Give each page a title: search results and bookmarks show it.
-- group: Titles and descriptions
-- kind: problem
select url, size, depth from html_pages where title is null order by depth, url
