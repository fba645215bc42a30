-- title: Untidy addresses
-- about: Pages with capital letters, spaces or double slashes in their path.
-- advice: Use lower case and hyphens: such addresses are easily mistyped.
-- group: Addresses
-- kind: problem
select url
from html_pages
where regexp_matches(url_path, '[A-Z]|%20|\+|//')
order by url
