<?php

declare(strict_types=1);

// For `php -S`: a proxy that takes the outcome of one job, but not of job 0, and refuses several as too large. It logs what it was asked.

$outcomes = json_decode((string) file_get_contents('php://input'), true);
file_put_contents((string) getenv('ASKED'), implode(',', array_column($outcomes, 'receipt')) . "\n", FILE_APPEND);
http_response_code(count($outcomes) > 1 ? 413 : 200);
echo match (true) {
    count($outcomes) > 1 => '<html>Request Entity Too Large</html>',
    $outcomes[0]['receipt'] === '0.1' => '[{"code":"invalid","status":400,"detail":"no"}]',
    default => '[{"outcome":"succeeded"}]',
};
