-- title: Redirect chains
-- about: Redirects that lead to another redirect, from the first to the last address.
-- advice: Redirect to the final address at once.
-- group: Redirects
-- kind: problem
with recursive chain as (
    select r.key as start, r.redirect_key as here, 1 as hops, [r.url, r.fetch_redirect] as path
    from urls r
    where r.fetch_redirect is not null and r.key not in (select redirect_key from urls where redirect_key is not null)
    union all
    select c.start, r.redirect_key, c.hops + 1, list_append(c.path, r.fetch_redirect)
    from chain c
    join urls r on r.key = c.here
    where r.fetch_redirect is not null and c.hops < 20
)
select path[1] as url, max(hops) as hops, arg_max(array_to_string(path, ' → '), hops) as chain
from chain
group by start, path[1]
having max(hops) > 1
order by hops desc, url
