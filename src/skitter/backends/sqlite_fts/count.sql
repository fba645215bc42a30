-- How many find.sql would find without a limit.
SELECT count(*)
FROM words JOIN pages ON pages.number = words.rowid
WHERE words MATCH :match
  AND (:domain = '' OR pages.domain = :domain OR pages.host = :domain)
  AND (:language = '' OR pages.language = :language OR substr(pages.language, 1, length(:language) + 1) = :language || '-')
