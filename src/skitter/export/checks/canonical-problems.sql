-- title: Canonical addresses that do not work
-- about: Canonical URLs that redirect, fail, ask for noindex or were never fetched.
-- advice: Name the address that answers 200.
-- group: What search engines are told
-- kind: problem
select p.url, p.canonical,
    case
        when u.url is null then 'was never found'
        when u.fetch_redirect is not null then 'redirects to ' || u.fetch_redirect
        when u.state <> 'crawled' then u.state || coalesce(': ' || u.reason, '')
        when u.fetch_status >= 300 then 'answers ' || u.fetch_status
        else 'asks for noindex'
    end as problem
from html_pages p
left join urls u on u.key = p.canonical_key
left join pages t on t.key = p.canonical_key
where p.canonical_key <> p.key
    and (u.url is null or u.state <> 'crawled' or u.fetch_status >= 300 or not coalesce(t.robots_index, true))
order by p.url
