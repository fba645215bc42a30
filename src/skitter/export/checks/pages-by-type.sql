-- title: Answers by type
-- about: How many answers of what type are stored.
-- advice: Types that no parser reads are stored and have no text.
-- group: The crawl
-- kind: overview
-- chart: type, answers
select coalesce(content_mime_detected, 'unknown') as type, count(*) as answers
from pages
group by type
order by answers desc, type
