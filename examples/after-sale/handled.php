<?php
declare(strict_types=1);
require __DIR__ . '/Duetime.php';

// The merchant has granted or refused the refund: php handled.php ORDER
if ($argc < 2) {
    fwrite(STDERR, "usage: php handled.php ORDER\n");
    exit(2);
}
echo json_encode(Duetime::ofEnvironment()->cancelTag("order-{$argv[1]}")), "\n";
