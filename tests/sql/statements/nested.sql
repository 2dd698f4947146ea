CREATE DATABASE lake.db;
CREATE TABLE lake.db.t (id INT, xs ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<a: INT, b: STRUCT<c: STRING, d: ARRAY<STRING>>>);
INSERT INTO lake.db.t VALUES (1, array(1, 2, NULL), map('a', 1), named_struct('a', 1, 'b', named_struct('c', 'x', 'd', array('p', NULL))));
INSERT INTO lake.db.t VALUES (2, NULL, NULL, NULL), (3, array(), map(), named_struct('a', NULL, 'b', NULL));
SELECT * FROM lake.db.t ORDER BY id;
SELECT id, s.b.c, get(xs, 0), m['a'] FROM lake.db.t ORDER BY id;
SELECT id, x FROM lake.db.t LATERAL VIEW explode(xs) e AS x ORDER BY id, x;
SELECT t.id, e.x FROM lake.db.t, LATERAL (SELECT explode(t.xs) AS x) AS e ORDER BY 1, 2;
SELECT id, size(xs), cardinality(m) FROM lake.db.t ORDER BY id;
SELECT id, transform(xs, t -> t + 1) AS ys FROM lake.db.t ORDER BY id;
SELECT id, filter(xs, x -> x > 1) AS ys FROM lake.db.t WHERE exists(xs, x -> x = 2);
UPDATE lake.db.t SET xs = array(9), m = map('z', 26) WHERE id = 2;
MERGE INTO lake.db.t USING (SELECT 2 AS id, array(9) AS xs, map('z', 26) AS m) AS n ON t.id = n.id
WHEN MATCHED THEN UPDATE SET xs = n.xs, m = n.m;
SELECT id, xs, m FROM lake.db.t ORDER BY id;
UPDATE lake.db.t SET s = named_struct('a', 7, 'b', named_struct('c', 'new', 'd', array('q'))) WHERE id = 3;
MERGE INTO lake.db.t USING (SELECT 3 AS id, named_struct('a', 7, 'b', named_struct('c', 'new', 'd', array('q'))) AS s) AS n ON t.id = n.id
WHEN MATCHED THEN UPDATE SET s = n.s;
SELECT id, s FROM lake.db.t ORDER BY id;
DELETE FROM lake.db.t WHERE s.a = 7;
SELECT id FROM lake.db.t ORDER BY id;
MERGE INTO lake.db.t USING (SELECT 2 AS id, array(5, 6) AS xs) AS n ON t.id = n.id
WHEN MATCHED THEN UPDATE SET xs = n.xs;
SELECT id, xs FROM lake.db.t ORDER BY id;
CREATE TABLE lake.db.r (id INT, rows ARRAY<STRUCT<k: STRING, v: INT>>, mm MAP<INT, ARRAY<STRING>>);
INSERT INTO lake.db.r VALUES (1, array(named_struct('k', 'a', 'v', 1), NULL), map(1, array('x')));
SELECT id, rows[0].k, rows.v, mm[1][0] FROM lake.db.r;
SELECT id, inline(rows) FROM lake.db.r;
INSERT INTO lake.db.r SELECT 2, array(named_struct('other', 'b', 'names', 2)), NULL;
SELECT * FROM lake.db.r ORDER BY id;
INSERT INTO lake.db.r BY NAME SELECT array(named_struct('v', 3, 'k', 'c')) AS rows, 3 AS id;
SELECT id, rows FROM lake.db.r ORDER BY id;
