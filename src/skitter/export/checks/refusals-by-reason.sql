-- title: Refused URLs by reason
-- about: URLs that were found and not fetched, by the reason.
-- advice: The page of reasons in the documentation says what each means and what to do.
-- group: The crawl
-- kind: overview
-- chart: reason, urls
select reason, count(*) as urls, min(url) as example
from urls
where state = 'refused'
group by reason
order by urls desc, reason
