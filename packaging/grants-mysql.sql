-- The rights of a server on MySQL or MariaDB that makes no tables (`duetime serve --no-migrate`), for the database `duetime`.
-- Choose a password. As an administrator, once the tables are there: mariadb < grants-mysql.sql
CREATE USER 'duetime_server' IDENTIFIED BY 'secret';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime.duetime_jobs TO 'duetime_server';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime.duetime_tallies TO 'duetime_server';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime.duetime_tags TO 'duetime_server';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime.duetime_registry TO 'duetime_server';
GRANT SELECT, UPDATE ON duetime.duetime_meta TO 'duetime_server';
GRANT SELECT, UPDATE, DELETE ON duetime.duetime_inbox TO 'duetime_server';
