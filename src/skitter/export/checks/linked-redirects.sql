-- title: Links to redirects
-- about: Links whose target redirects to somewhere else.
-- advice: Link to the final address: each redirect costs a request and time.
-- group: Redirects
-- kind: problem
select l.source, l.target, u.fetch_status as status, u.fetch_redirect as leads_to
from links l
join urls u on u.url = l.target
where u.fetch_redirect is not null
order by l.target, l.source
