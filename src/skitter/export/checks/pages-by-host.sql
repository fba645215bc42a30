-- title: Hosts
-- about: What was fetched from each host, and how much that was.
-- advice: `budget.max_pages` and its like limit single hosts.
-- group: The crawl
-- kind: overview
-- chart: host, pages
select url_host_name as host, pages, requests, errors, bytes, queued as waiting, round(delay, 2) as delay, reason as set_aside
from hosts
order by pages desc, host
