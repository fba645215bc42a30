-- title: Redirect loops
-- about: Redirects that lead back to where they began, or to more redirects than allowed.
-- advice: Nobody can see these pages: correct the rules of the server.
-- group: Redirects
-- kind: problem
with recursive chain as (
    select r.key as start, r.redirect_key as here, 1 as hops, [r.url] as path
    from urls r
    where r.fetch_redirect is not null
    union all
    select c.start, r.redirect_key, c.hops + 1, list_append(c.path, r.url)
    from chain c
    join urls r on r.key = c.here
    where r.fetch_redirect is not null and c.here <> c.start and c.hops < 20
)
select path[1] as url, hops, array_to_string(path, ' → ') as loop
from chain
where here = start and path[1] = list_min(path)
union all
select url, null, detail from urls where reason = 'redirects'
order by url
