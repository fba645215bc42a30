-- title: Redirects to errors
-- about: Redirects whose target answers 4xx or 5xx or could not be fetched.
-- advice: Redirect to a page that is there, or answer 410.
-- group: Redirects
-- kind: problem
select r.url, r.fetch_redirect as leads_to, coalesce(cast(t.fetch_status as varchar), t.reason) as problem
from urls r
join urls t on t.key = r.redirect_key
where (t.state = 'crawled' and t.fetch_status >= 400) or t.state = 'failed'
order by r.url
