<?php

declare(strict_types=1);

// The child of `Keeper`: see `KeeperProcess`.

require __DIR__ . '/autoload.php';

/** @var array{servers: list<string>, token: string, ca: string|null, parent: int, healthFile: string|null} $config */
$config = Duetime\Json::decode((string) fgets(\STDIN));
(new Duetime\KeeperProcess($config))->run();
