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
  [403, "User x is not authorized to perform: bedrock:InvokeModel on resource y", "Auth"]
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

  it("blames the response for a wrong tool call, and the request for a tool result that cannot be sent", () => {
    const side = (name: string) => Classifier.failureOf(Object.assign(new Error(""), { name })).reason
    assert.deepInclude(side("AI_NoSuchToolError"), { _tag: "Format", side: "response" })
    assert.deepInclude(side("AI_UnsupportedFunctionalityError"), { _tag: "Format", side: "request" })
  })
})
