/**
 * Rules on the words of a broken protocol: an invalid request, or an answer that cannot be parsed.
 */
import * as Rule from "./Rule.ts"
import { badRequest, badRequestOrLimit, badResponse } from "./reasons.ts"

// Errors about the caller's rights (401, 402, 403, 407) also name fields. After a 5xx the same words may be about
// the server's internals, but then a code says so.
const refused = new Set([401, 402, 403, 407])

/** Statuses of requests that collided or came too early. Their content is valid. */
const transient = new Set([409, 425])

const mayBeRequest = ({ status }: { readonly status: number | undefined }): boolean =>
  status === undefined ||
  (status >= 400 && status < 429 && !refused.has(status) && !transient.has(status)) ||
  status === 500 ||
  status === 501

/** Sentences about a part of the request, of a router or a validator. They may quote the field, whose content must not be interpreted. */
export const validations: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "format/unrouted",
    why: "A router has no endpoint of the model for a feature of this request. Other requests to the model work.",
    phrases: [
      "no (endpoints|endpoint|providers|provider) (found|available) that (can |)(support|supports|handle|handles|accept|accepts)"
    ],
    reason: badRequest
  }),
  Rule.text({
    id: "format/validator",
    why: "Pydantic names the field of the request and what it should be, as Anthropic and vLLM pass it on.",
    phrases: [
      "(input|string|list|tuple|dictionary|object|number|value) should (be|have|match)",
      "extra inputs are not permitted"
    ],
    when: ({ said, status }) => {
      const decisive = said ?? status
      return decisive === 400 || decisive === 422
    },
    reason: badRequestOrLimit
  })
]

export const requests: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "format/request",
    why: "The error calls a field, role, schema or pairing of the request invalid.",
    phrases: [
      "(tool_use|tool_result|tool_calls|tool_call_id|tool calls)…(without|must|found|did not|not found|unexpected|missing|unique|should|require|requires)",
      "(tool_call_ids|tool_use ids)",
      "(thinking|redacted_thinking|thinking_blocks|reasoning_content)…(cannot be modified|must|expected|required|invalid|missing|should)",
      "(invalid|bad|malformed) (schema|parameter|parameters|argument|arguments|json|value|type|role|param|params|setting|settings|input|request body|json schema|message|messages|image|url)",
      "(unsupported|unknown|unrecognized|unexpected|missing|invalid|required|extra) (request |required |url |)(parameter|parameters|argument|arguments|field|fields|value|property|inputs|role|keyword|key|keys|media type)",
      "(is|are|was|were) (not |a |un|)(required|supported|permitted|allowed|unsupported) (property|parameter|field|with this model|by this model|for this model|when)",
      "(does not|doesn't|do not|not) support (assistant|embedding|tools|tool|function|functions|image|images|system|streaming|prefill|parameters|developer|response|json|vision|thinking|temperature|audio|video|multi)*",
      "(function call|function response|function calling|function_call|functioncall|thought_signature|thought signature)",
      "(roles|messages)…alternat*",
      "(contents|messages|input|prompt|parts) (is not specified|is empty|are empty|cannot be empty|must not be empty|should not be empty)",
      "missing data required for",
      "streaming is (strongly recommended|required)",
      "expected (toolresult|tooluse|last role)…",
      "tool call (id|ids)",
      "tool choice requires",
      "(failed|unable|could not|cannot|error) (to |)(deserialize|validate|process image|download|decode image)",
      "(validation|schema) (error|errors|failed)",
      "(do not|does not|doesn't|don't) (match|conform|comply)",
      "(parameter|parameters|argument|arguments) (is|are) illegal"
    ],
    unless: ["unexpected token", "response (format is|could not)", "type validation failed"],
    when: mayBeRequest,
    reason: badRequest
  }),
  Rule.text({
    id: "format/reference",
    why: "A file, an earlier answer or a conversation of the request does not exist. The model does.",
    phrases: [
      "(file|item|thread|batch|run|message|conversation|assistant|vector store|container|upload|cachedcontent|previous response|response) (with id |id |)…(not found|does not exist)",
      "no such (file|thread|assistant|batch|run|response|vector store)…",
      "no (thread|file|assistant|batch|run|response|conversation|vector store) found"
    ],
    unless: ["(model|deployment|endpoint)"],
    when: ({ status }) => status === 400 || status === 404,
    reason: badRequest
  }),
  Rule.text({
    id: "format/response",
    why: "The response cannot be parsed, or does not follow the protocol.",
    phrases: [
      "(is not|not|isn't|invalid|malformed|no valid|non-json) (valid |a valid |)json",
      "json (parse|parsing|decode|decoding|syntax|validation|repair) (error|failed|failure)",
      "(unexpected|unterminated|expected)…(token|json|string|end of json|character|identifier|non-whitespace)…(json|position|double-quoted|line|identifier|html|doctype|column)",
      "unexpected (end of json|end of input|end of data|token|identifier|non-whitespace)",
      "(expecting|expected) (value|property name|',' delimiter)",
      "(could not|couldn't|cannot|can't|failed to|unable to|error|no) (parse|parsing|decode|decoding|object generated|generate a valid)",
      "(failed to|unable to|could not|cannot) read (the |)(response|body|stream|reply|answer)",
      "(no object|no output|no content|no response|no candidates|no choices|no message) (generated|returned|found|received|in response|produced)",
      "(response|output|answer|reply|result|stream|object) (did not|does not|doesn't|didn't) (match|conform|contain|have|include|fit|validate|respect|follow)",
      "(stream|response|output) was (invalid|malformed|empty)",
      "(invalid|malformed|empty|bad|unexpected|incomplete|missing|unparseable|unparsable) (json |http |api |model |llm |server |tool |stream |)(response|output|reply|answer|tool call|function call|chunk|event|completion|generation|content-type|content type)",
      "type validation failed",
      "unhandled (chunk|event|part|delta|block) type",
      "malformed_function_call",
      "(returned|received|got|with) (an |a |)(empty|html|invalid|malformed|null|no) (response|page|content|body|output|text|result|html|message)",
      "(stream|response) (ended|closed|finished) without",
      "(response|output|answer|generation)…incomplete",
      "(text/html|html) (instead|response|page|was returned|content)",
      "failed to call a function",
      "invalid character…looking for",
      "cannot unmarshal",
      "failed to generate json"
    ],
    unless: [
      "too (large|long)",
      "empty reply from server",
      "error decoding response body",
      "bad response status"
    ],
    when: ({ status }) => status === undefined || status < 401 || status === 500,
    reason: badResponse
  })
]
