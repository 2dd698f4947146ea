CREATE DATABASE lake.db;
CREATE TABLE lake.db.t (id INT, name STRING, v INT);
CREATE TABLE lake.db.s (id INT, name STRING, v INT, op STRING);
INSERT INTO lake.db.t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30), (NULL, 'n', 0);
INSERT INTO lake.db.s VALUES (2, 'B', 200, 'u'), (3, 'C', 300, 'd'), (4, 'D', 400, 'i'), (NULL, 'N', 1, 'i');
MERGE INTO lake.db.t USING lake.db.s ON t.id = s.id
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET name = s.name, v = t.v + s.v
WHEN NOT MATCHED THEN INSERT (id, name, v) VALUES (s.id, s.name, s.v);
SELECT * FROM lake.db.t ORDER BY id, name;
MERGE INTO lake.db.t AS target USING (SELECT id, max(v) AS v FROM lake.db.s GROUP BY id) AS source ON target.id = source.id
WHEN MATCHED AND source.v > 200 THEN UPDATE SET target.v = source.v;
SELECT * FROM lake.db.t ORDER BY id, name;
MERGE INTO lake.db.t USING (SELECT * FROM VALUES (1, 'one', 1), (9, 'nine', 9) AS v(id, name, v)) AS x ON t.id = x.id
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM lake.db.t ORDER BY id, name;
MERGE INTO lake.db.t USING lake.db.s ON t.id = s.id
WHEN NOT MATCHED BY SOURCE THEN DELETE;
SELECT * FROM lake.db.t ORDER BY id, name;
MERGE INTO lake.db.t USING lake.db.s ON t.id = s.id
WHEN NOT MATCHED BY SOURCE AND t.v > 1000 THEN DELETE
WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = concat(t.name, '?');
SELECT * FROM lake.db.t ORDER BY id, name;
WITH c AS (SELECT id, v FROM lake.db.s WHERE id IS NOT NULL)
MERGE INTO lake.db.t USING c ON t.id = c.id
WHEN NOT MATCHED THEN INSERT (id, v) VALUES (c.id, c.v);
MERGE INTO lake.db.t USING (WITH c AS (SELECT id, v FROM lake.db.s WHERE id > 3) SELECT * FROM c) AS c ON t.id = c.id
WHEN MATCHED THEN UPDATE SET v = c.v + 1;
SELECT * FROM lake.db.t ORDER BY id, name;
CREATE TEMPORARY VIEW incoming AS SELECT 2 AS id, 'view' AS name, 5 AS v;
MERGE INTO lake.db.t USING incoming ON t.id = incoming.id
WHEN MATCHED THEN UPDATE SET name = incoming.name;
SELECT * FROM lake.db.t ORDER BY id, name;
MERGE INTO lake.db.t USING (SELECT * FROM VALUES (2, 'x'), (2, 'y') AS v(id, name)) AS x ON t.id = x.id
WHEN MATCHED THEN UPDATE SET name = x.name;
SELECT * FROM lake.db.t ORDER BY id, name;
MERGE INTO lake.db.t USING (SELECT * FROM VALUES (77, 'x'), (77, 'y') AS v(id, name)) AS x ON t.id = x.id
WHEN NOT MATCHED THEN INSERT (id, name) VALUES (x.id, x.name);
SELECT * FROM lake.db.t ORDER BY id, name;
MERGE INTO lake.db.t USING lake.db.s ON t.id = s.nothing
WHEN MATCHED THEN DELETE;
MERGE INTO lake.db.missing USING lake.db.s ON missing.id = s.id
WHEN MATCHED THEN DELETE;
MERGE INTO lake.db.t USING lake.db.missing AS s ON t.id = s.id
WHEN MATCHED THEN DELETE;
MERGE INTO lake.db.t USING lake.db.s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET nothing = 1;
MERGE INTO lake.db.t USING lake.db.s ON false
WHEN NOT MATCHED AND s.op = 'i' AND s.id IS NOT NULL THEN INSERT (id, name, v) VALUES (s.id + 100, lower(s.name), s.v);
SELECT * FROM lake.db.t ORDER BY id, name;
