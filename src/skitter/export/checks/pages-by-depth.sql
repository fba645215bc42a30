-- title: Pages by clicks from the start
-- about: How many pages are how many clicks away from where the crawl began.
-- advice: Most of what matters should be within four clicks.
-- group: Structure
-- kind: overview
-- chart: depth, pages, columns
select depth, count(*) as pages from html_pages group by depth order by depth
