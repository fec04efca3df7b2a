<?php
declare(strict_types=1);
require __DIR__ . '/Duetime.php';

// A buyer asks for a refund: php request.php ORDER AMOUNT [48h]
if ($argc < 3) {
    fwrite(STDERR, "usage: php request.php ORDER AMOUNT [DELAY]\n");
    exit(2);
}
[, $order, $amount] = $argv;
$pushed = Duetime::ofEnvironment()->push('after-sale', [
    'kind' => 'call',
    'payload' => ['class' => 'Refund', 'method' => 'grant', 'data' => ['order' => $order, 'amount' => $amount]],
    'delay' => $argv[3] ?? '48h',
    'key' => "refund-$order", // a second request for the same order changes nothing
    'tags' => ["order-$order"],
]);
echo "{$pushed['id']} {$pushed['outcome']}\n";
