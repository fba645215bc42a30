-- title: URLs that robots.txt forbids
-- about: URLs that were found and that the robots.txt of their site forbids.
-- advice: If the site is yours and they should be found, change its robots.txt.
-- group: The crawl
-- kind: problem
select url, detail, parent as found_on
from urls
where state = 'refused' and starts_with(reason, 'robots')
order by url
