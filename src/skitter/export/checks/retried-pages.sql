-- title: Pages that needed several tries
-- about: URLs for which more than one request was needed.
-- advice: Often a sign of an overloaded server: crawl it more slowly, or at night (politeness.window).
-- group: Errors
-- kind: problem
select url, max(attempt) as tries, string_agg(distinct coalesce(fault, cast(fetch_status as varchar)), ', ' order by coalesce(fault, cast(fetch_status as varchar))) as answers
from requests
where purpose <> 'robots'
group by url
having max(attempt) > 1
order by tries desc, url
