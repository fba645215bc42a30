-- title: Failures by cause
-- about: URLs that were given up, by the reason.
-- advice: `skitter why DIR URL` tells everything about one of them.
-- group: Errors
-- kind: overview
-- chart: reason, urls
select reason, count(*) as urls, min(url) as example
from urls
where state = 'failed'
group by reason
order by urls desc, reason
