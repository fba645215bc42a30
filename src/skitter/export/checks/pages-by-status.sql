-- title: Answers by status
-- about: How many URLs were last answered with what status.
-- advice: Other checks name those with errors and redirects.
-- group: The crawl
-- kind: overview
-- chart: status, urls
select coalesce(cast(fetch_status as varchar), 'no answer') as status, count(*) as urls
from urls
where state in ('crawled', 'failed')
group by status
order by status
