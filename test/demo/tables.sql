CREATE TABLE shop.products (id int PRIMARY KEY, name text);
CREATE TABLE shop.orders (id int PRIMARY KEY, user_id text, product int);
CREATE TABLE shop.audit_log (id int PRIMARY KEY, user_id text, what text);
INSERT INTO shop.products VALUES (1, 'tea'), (2, 'coffee');
INSERT INTO shop.orders VALUES (1, 'alice', 1), (2, 'alice', 2), (3, 'bob', 1), (4, 'bob', 2);
INSERT INTO shop.audit_log VALUES (1, 'alice', 'login');
