<?php
// Takes an order, and pushes the job that cancels it unless it is paid: both in one transaction, or neither.
//
//     php push.php mysql://user:password@host/database 42
//     php push.php postgres://user:password@host/database 42
//
// It needs the right to insert into `duetime_inbox`, and a table `orders (id BIGINT PRIMARY KEY)`.

[, $url, $order] = $argv;
$place = parse_url($url);
$isMySql = $place['scheme'] === 'mysql';
$dsn = sprintf(
    '%s:host=%s;port=%d;dbname=%s',
    $isMySql ? 'mysql' : 'pgsql',
    $place['host'],
    $place['port'] ?? ($isMySql ? 3306 : 5432),
    ltrim($place['path'], '/')
);
$db = new PDO($dsn, $place['user'], $place['pass'] ?? '', [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);

$db->beginTransaction();
try {
    $push = $db->prepare(
        'INSERT INTO duetime_inbox (queue, kind, payload, delay_ms, job_key, tags, options) VALUES (?, ?, ?, ?, ?, ?, ?)'
    );
    $push->execute([
        'orders',
        'order.cancel',
        json_encode(['order' => (int) $order, 'note' => "a \"quoted\" \\ naïve\nnote"]),
        50,
        "cancel-$order",
        json_encode(["order-$order"]),
        json_encode(['max_attempts' => 3, 'lease' => '5m']),
    ]);
    // If the order already exists, this fails, and so does the push.
    $db->prepare('INSERT INTO orders (id) VALUES (?)')->execute([$order]);
    $db->commit();
} catch (PDOException $error) {
    $db->rollBack();
    fwrite(STDERR, "the order $order was not taken: {$error->getMessage()}\n");
    exit(1);
}
echo "the order $order was taken\n";
