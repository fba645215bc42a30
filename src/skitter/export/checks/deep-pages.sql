-- title: Pages that are far away
-- about: Pages more than five clicks away from where the crawl began.
-- advice: Link to what matters from a page nearer to the start.
-- group: Structure
-- kind: problem
select url, depth, title from html_pages where depth > 5 order by depth desc, url
