-- Asks for 10,000 users in turn. The argument is the operation.
local calls, place = {}, 0

function init(args)
    local headers = { ["Content-Type"] = "application/json" }
    for user = 1, 10000 do
        local body = string.format('{"attributes": {"operation": "%s", "user": "user-%08d"}}', args[1], user)
        calls[user] = wrk.format("POST", "/v1/check", headers, body)
    end
end

function request()
    place = place % #calls + 1
    return calls[place]
end

-- Answers, microseconds of the run and of the 99th percentile, answers that are no success, and failures.
function done(summary, latency, requests)
    local errors = summary.errors
    local failures = errors.connect + errors.read + errors.write + errors.timeout
    local p99 = latency:percentile(99)
    io.write(string.format("\ndone %d %d %d %d %d\n", summary.requests, summary.duration, p99, errors.status, failures))
end
