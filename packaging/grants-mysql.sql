-- The privileges that `duetime serve --no-migrate` needs on MySQL or MariaDB, for the database `duetime`.
-- Choose a password. Once the tables exist, run as an administrator: mariadb < grants-mysql.sql
CREATE USER 'duetime_server' IDENTIFIED BY 'secret';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime.duetime_jobs TO 'duetime_server';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime.duetime_tallies TO 'duetime_server';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime.duetime_tags TO 'duetime_server';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime.duetime_registry TO 'duetime_server';
GRANT SELECT, UPDATE ON duetime.duetime_meta TO 'duetime_server';
GRANT SELECT, UPDATE, DELETE ON duetime.duetime_inbox TO 'duetime_server';
