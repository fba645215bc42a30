-- title: Temporary redirects
-- about: Redirects with 302, 303 or 307: the old address stays in search engines.
-- advice: Use 301 or 308 for what has moved for good.
-- group: Redirects
-- kind: problem
select url, fetch_status as status, fetch_redirect as leads_to
from urls
where fetch_redirect is not null and fetch_status in (302, 303, 307)
order by url
