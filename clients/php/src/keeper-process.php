<?php

declare(strict_types=1);

// The child of `Keeper`: see `KeeperProcess`.

require __DIR__ . '/autoload.php';

(new Duetime\KeeperProcess(Duetime\Json::decode((string) fgets(\STDIN))))->run();
