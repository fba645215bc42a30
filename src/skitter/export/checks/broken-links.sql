-- title: Broken links
-- about: Links to pages that answer 4xx or 5xx or could not be fetched, with the pages they are on.
-- advice: Correct or remove the link on each source page, or bring the target back.
-- group: Errors
-- kind: problem
select coalesce(cast(u.fetch_status as varchar), u.reason) as problem, l.target, l.source
from links l
join urls u on u.url = l.target
where (u.state = 'crawled' and u.fetch_status >= 400) or u.state = 'failed'
order by l.target, l.source
