-- title: Octets by type
-- about: How much of what type is stored.
-- advice: If something large is of no use, leave it out (scope.skip_extensions, scope.exclude).
-- group: Speed and size
-- kind: overview
-- chart: type, bytes
select coalesce(content_mime_detected, 'unknown') as type, sum(size) as bytes, count(*) as answers
from pages
group by type
order by bytes desc, type
