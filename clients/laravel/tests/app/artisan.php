<?php

declare(strict_types=1);

// `php artisan.php FOLDER CONNECTION COMMAND …`: the application's artisan.

use Duetime\Laravel\Tests\App\Application;
use Illuminate\Contracts\Console\Kernel;
use Symfony\Component\Console\Input\ArgvInput;
use Symfony\Component\Console\Output\ConsoleOutput;

require __DIR__ . '/../bootstrap.php';
$app = Application::boot($argv[1], $argv[2], ['lease' => (float) (getenv('LEASE') ?: 60), 'block_for' => (float) (getenv('BLOCK_FOR') ?: 0)]);
exit($app->make(Kernel::class)->handle(new ArgvInput(['artisan', ...array_slice($argv, 3)]), new ConsoleOutput()));
