/**
 * Sentences with the words of one reason and the meaning of another.
 */
import { assert, describe, it } from "@effect/vitest"
import { Classifier } from "@outlast/agent"
import type { ReasonTag } from "#agent/failure/reasons/FailoverReason"

const pairs: ReadonlyArray<readonly [status: number | undefined, message: string, reason: ReasonTag]> = [
  // A content filter whose message mentions billing.
  [
    403,
    "x requires moderation. Your input was flagged for violence. No credits were charged.",
    "ContentPolicy"
  ],
  [402, "You have no credits.", "Billing"],
  // A rate limit next to a time limit that was not exceeded.
  [429, "Rate limit exceeded (timeout: 60s)", "RateLimit"],
  [429, "Rate limit exceeded for gpt-4o. timeout=None", "RateLimit"],
  [429, "You have exceeded your rate limit. Request timeout was 600", "RateLimit"],
  [400, "prompt is too long: 210000 tokens > 200000 maximum, exceeded client timeout", "ContextOverflow"],
  [503, "upstream exceeded the time limit", "Timeout"],
  [500, "The worker exceeded 60s timeout", "Timeout"],
  [undefined, "context deadline exceeded", "Timeout"],
  // A model that failed, and a model that does not exist.
  [500, "The model encountered an unknown error", "ServerError"],
  [500, "Error calling model: connection unknown", "ServerError"],
  [500, "Model request failed: the tool get_weather does not exist", "ServerError"],
  [undefined, "Invalid model output: no tool call found", "Format"],
  [undefined, "Invalid model response", "Format"],
  [undefined, "Missing model response", "Format"],
  [400, "Invalid model name passed in model=gpt-9", "ModelNotFound"],
  [400, "unknown model gpt-9", "ModelNotFound"],
  [400, "The model gpt-9 is unknown", "ModelNotFound"],
  [503, "The model is temporarily not available. Please try again later.", "Overloaded"],
  [404, "The model gpt-9 is temporarily unavailable in your region", "ModelNotFound"],
  [404, "The model gpt-9 is not available", "ModelNotFound"],
  // The key of an object and the key of an account; the token of a model and the token of an account.
  [400, "Unrecognized key(s) in object: 'reasoning_effort'", "Format"],
  [400, 'Unrecognized key: "cache_control"', "Format"],
  [400, "Missing key 'messages' in request", "Format"],
  [400, "Invalid value for 'logit_bias': invalid token id '999999'", "Format"],
  [400, "invalid token in grammar", "Format"],
  [400, "Invalid token", "Auth"],
  [400, "Missing key", "Auth"],
  [401, "Unrecognized API key", "Auth"],
  // A firewall that blocks a request, and a filter that blocks content.
  [403, "Your request was blocked.", "Auth"],
  [403, "Your request was blocked by our content policy", "ContentPolicy"],
  [400, "The prompt was blocked", "ContentPolicy"],
  // A validator that quotes the rejected value.
  [400, "messages.2.content: Input should be a valid string. Got 'rate limit exceeded'", "Format"],
  [429, "Your input should be shorter: rate limit of 30000 tokens per minute exceeded", "RateLimit"],
  // An overloaded model, and an overloaded context.
  [429, "Model is overloaded. Max tokens per request unaffected, retry later", "Overloaded"],
  [400, "The context is overloaded with tokens: maximum context length is 8192 tokens", "ContextOverflow"],
  // A message that is too large for a channel, and too many tokens for a unit of time.
  [
    undefined,
    "8 RESOURCE_EXHAUSTED: Received message larger than max (5241222 vs. 4194304)",
    "ContextOverflow"
  ],
  [undefined, "8 RESOURCE_EXHAUSTED: Quota exceeded", "RateLimit"],
  // A closed WebSocket.
  [undefined, "WebSocket closed", "Network"],
  [
    undefined,
    "WebSocket closed: code 1011, reason: Deadline expired before operation could complete.",
    "Timeout"
  ],
  // A policy of an organisation that forbids every model.
  [400, "Organization Policy constraint constraints/x violated for projects/p", "Auth"],
  [undefined, "Something went wrong", "Unknown"],
  // Something that was terminated, and undici's single word for a connection that was.
  [undefined, "Agent run terminated due to an error", "Unknown"],
  [undefined, "Stream error: terminated", "Network"],
  [502, "upstream error: terminated", "Network"],
  [500, "llama runner process has terminated: signal: killed", "ServerError"],
  // Missing credits with a wait, and without one.
  [429, "Free usage exceeded, add credits or retry in 3 hours", "RateLimit"],
  [429, "Your account is out of credits. Please add credits.", "Billing"],
  // Busy slots of a server, and a field named slots.
  [undefined, "all are busy, no slots available", "Overloaded"],
  [400, "unknown field: slots is not available in this API", "Format"],
  // A status that is passed on, and a malformed body.
  [500, "bad response status code 500", "ServerError"],
  [200, "bad response: no choices", "Format"],
  // No permission to buy one model, and no permission to call the API.
  [
    403,
    "Model access is denied: the role is not authorized to perform the required AWS Marketplace actions",
    "ModelNotFound"
  ],
  [403, "User x is not authorized to perform: bedrock:InvokeModel on resource y", "Auth"],
  // Words of one sentence, and words of two.
  [401, "Your key is not enabled for the large model", "ModelNotFound"],
  [401, "Your key is not enabled. Routing: model group large", "Auth"],
  // All that a browser says of a broken connection, and a sentence with the same words.
  [undefined, "TypeError: NetworkError when attempting to fetch resource.", "Network"],
  [undefined, "Provider x: Load failed (api.example.com)", "Network"],
  [500, "The draft model load failed", "ServerError"],
  [400, "Failed to fetch the schemas of tools: not available here", "Format"],
  // A connection that ended, and the time limit that ended it.
  [undefined, "terminated", "Network"],
  [undefined, "terminated (cause: body timed out)", "Timeout"],
  [undefined, "error sending request for url (https://example.com)", "Network"],
  [undefined, "error sending request for url (https://example.com): operation timed out", "Timeout"],
  [undefined, "The call exceeded clientTimeoutMs (60000)", "Timeout"],
  [undefined, "Sent no first token for 60 s", "Timeout"],
  // A server that crashed while it read, and an answer that cannot be read.
  [undefined, "panic: unable to decode this batch", "ServerError"],
  [undefined, "Unable to decode this answer", "Format"],
  [400, "litellm.BadRequestError: the run stopped due to an internal error", "ServerError"],
  // A model that is being loaded, and one that cannot be.
  [undefined, "The model x is currently loading", "Overloaded"],
  [400, "Cannot load model x: Error loading model", "ServerError"],
  // A page of a bot filter, one of a limit, and one of a server.
  [403, "<html><script>a.src='/cdn-cgi/challenge-platform/x.js'</script></html>", "PermanentNetwork"],
  [429, "<p>You are being rate limited</p><script>'/cdn-cgi/challenge-platform/x.js'</script>", "RateLimit"],
  [403, "<html><h1>403 Forbidden</h1></html>", "Auth"],
  // A gateway whose accounts all rest, and one that got no key.
  [503, "auth_unavailable: no auth available for any provider", "Overloaded"],
  [424, "No available accounts in this group", "Overloaded"],
  [401, "No auth credentials", "Auth"],
  // The name of a status, beside what happened.
  [undefined, "Bad Gateway", "Overloaded"],
  [502, "Bad Gateway: connection reset by the other side", "Network"],
  [undefined, "litellm.BadGatewayError: no body", "Overloaded"],
  [undefined, '[POST] "https://example.com/chat": 421 Misdirected Request', "PermanentNetwork"],
  [undefined, "write EPROTO 1234", "Network"],
  // A model that is off, and a membership for it.
  [403, "Model is disabled", "ModelNotFound"],
  [403, "This model requires a Pro membership", "ModelNotFound"],
  // Google's reasons for a blocked prompt.
  [undefined, "No candidates by Gemini: BlockedReason.SPII", "ContentPolicy"],
  [undefined, "No candidates by Gemini: BlockedReason.IMAGE_SAFETY", "ContentPolicy"]
]

describe("words of one reason in a sentence of another", () => {
  for (const [statusCode, message, reason] of pairs) {
    it(`${statusCode ?? ""} ${message} is ${reason}`, () => {
      const error = statusCode === undefined ? new Error(message) : { statusCode, message }
      const failure = Classifier.failureOf(error)
      assert.strictEqual(failure.reason._tag, reason, failure.evidence.rule)
    })
  }

  it("does not take the close code of a WebSocket for a provider's code", () => {
    const closed = { code: 1001, reason: "going away" }
    for (const provider of ["", "other", "proxy"]) {
      assert.notStrictEqual(Classifier.failureOf(closed, { provider }).reason._tag, "Auth")
    }
  })

  it("uses the error inside of a gateway's, whatever the order of its fields", () => {
    const inner = { error: { code: 400, message: "messages.0: unknown role", status: "INVALID_ARGUMENT" } }
    const message = `All accounts failed. Last error: HTTP 400: ${JSON.stringify(inner)}`
    const orders = [
      { message, status: 429 },
      { status: 429, message }
    ]
    for (const outer of orders) {
      assert.strictEqual(Classifier.failureOf({ message: JSON.stringify(outer) }).reason._tag, "Format")
    }
  })

  it("uses what the provider said behind OpenRouter, if it said anything", () => {
    const reason = (raw: string) =>
      Classifier.failureOf({
        statusCode: 400,
        responseBody: { error: { message: "Provider returned error", code: 400, metadata: { raw } } }
      }).reason._tag
    assert.strictEqual(reason(JSON.stringify({ error: { message: "Wrong params" } })), "Format")
    assert.strictEqual(reason("ERROR"), "Unknown")
  })

  it("blames the request for the id of a tool call", () => {
    const { reason } = Classifier.failureOf({
      statusCode: 400,
      message: "The last message has an unexpected tool call id"
    })
    assert.deepInclude(reason, { _tag: "Format", side: "request" })
  })

  it("blames the response for a wrong tool call, and the request for a tool result that cannot be sent", () => {
    const side = (name: string) => Classifier.failureOf(Object.assign(new Error(""), { name })).reason
    assert.deepInclude(side("AI_NoSuchToolError"), { _tag: "Format", side: "response" })
    assert.deepInclude(side("AI_UnsupportedFunctionalityError"), { _tag: "Format", side: "request" })
  })
})
