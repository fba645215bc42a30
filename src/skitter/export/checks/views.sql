-- Pages that people read: HTML, with content.
create view html_pages as
select *
from pages
where purpose = 'page'
    and fetch_status between 200 and 299
    and content_mime_detected in ('text/html', 'application/xhtml+xml');
