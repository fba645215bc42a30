-- title: Addresses with parameters
-- about: Names of query parameters, by the number of pages that have them.
-- advice: Parameters that change nothing make copies: leave them out (urls.drop_params), or name a canonical address.
-- group: Addresses
-- kind: overview
-- chart: parameter, pages
with named as (
    select url, unnest(string_split(url_query, '&')) as pair from pages where url_query is not null
)
select split_part(pair, '=', 1) as parameter, count(distinct url) as pages, min(url) as example
from named
group by parameter
order by pages desc, parameter
