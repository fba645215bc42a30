-- Only numbers and scores are sorted. A snippet is cut for what is shown (show.sql), since that splits the whole text.
SELECT pages.number, -bm25(words, :title_weight, 1.0) AS score
FROM words JOIN pages ON pages.number = words.rowid
WHERE words MATCH :match
  AND (:domain = '' OR pages.domain = :domain OR pages.host = :domain)
  AND (:language = '' OR pages.language = :language OR substr(pages.language, 1, length(:language) + 1) = :language || '-')
ORDER BY score DESC, pages.url
LIMIT :limit OFFSET :offset
