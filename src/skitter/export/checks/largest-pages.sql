-- title: Largest pages
-- about: The hundred largest answers that are stored.
-- advice: Compress images, and divide very large documents.
-- group: Speed and size
-- kind: overview
select url, size as bytes, content_mime_detected as type from pages order by size desc, url limit 100
