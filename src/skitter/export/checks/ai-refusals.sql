-- title: Pages that say no to some uses
-- about: Pages that refuse a use such as training of AI, by what they say.
-- advice: `export --respect-ai train-ai` leaves them out.
-- group: What search engines are told
-- kind: problem
select ai, count(*) as pages, min(url) as example
from pages
where contains(ai, '=n')
group by ai
order by pages desc, ai
