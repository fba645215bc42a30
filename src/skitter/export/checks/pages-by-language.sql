-- title: Pages by language
-- about: The languages that HTML pages say they are in.
-- advice: A language you did not expect may be a wrong attribute.
-- group: The crawl
-- kind: overview
-- chart: language, pages
select coalesce(language, 'not said') as language, count(*) as pages
from html_pages
group by all
order by pages desc, language
