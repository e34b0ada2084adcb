/**
 * Errors with a single signal: a code, a status, a name, a tag. Messages are left out, so that each rule on a
 * signal has a case that depends on it.
 */
import { Cause, Exit } from "effect"
import { AiError } from "effect/ai"

const code = (code: string, statusCode?: number) => ({
  message: "",
  ...(statusCode === undefined ? {} : { statusCode }),
  responseBody: JSON.stringify({ error: { code, message: "" } })
})
const status = (statusCode: number) => ({ message: "", statusCode })
const name = (name: string) => Object.assign(new Error(""), { name })
const errno = (code: string) => Object.assign(new Error(""), { code })
const zhipu = (number: string) => code(number)
const baseResp = (status_code: number) => ({
  statusCode: 200,
  responseBody: JSON.stringify({ base_resp: { status_code, status_msg: "" } })
})
const baidu = (error_code: number) => ({ error_code, error_msg: "sorry" })
const ai = (reason: AiError.AiErrorReason) => AiError.make({ module: "Test", method: "generateText", reason })
const unreached = (reason: "TransportError" | "EncodeError" | "InvalidUrlError") =>
  ai(new AiError.NetworkError({ reason, method: "POST", url: "https://example.com" }))

export const signals: ReadonlyArray<readonly [error: unknown, reason: string, provider?: string]> = [
  [Exit.interrupt(1), "Cancelled"],
  [Cause.fail(new Cause.TimeoutError()), "Timeout"],

  [code("insufficient_quota", 429), "Billing"],
  [code("context_length_exceeded", 400), "ContextOverflow"],
  [code("model_not_found", 400), "ModelNotFound"],
  [code("account_deactivated", 401), "Auth"],
  [code("API_KEY_INVALID", 400), "Auth"],
  [code("content_filter", 400), "ContentPolicy"],
  [
    { statusCode: 200, responseBody: '{"candidates":[{"finishReason":"IMAGE_RECITATION"}]}' },
    "ContentPolicy"
  ],
  [{ statusCode: 403, message: "Why have I been blocked?" }, "PermanentNetwork"],
  [{ statusCode: 403, message: "This model requires a Pro membership" }, "ModelNotFound"],
  [{ statusCode: 400, message: "BadRequestError: stopped due to an internal error" }, "ServerError"],
  [code("overloaded_error"), "Overloaded"],
  [code("unsupported_parameter", 404), "Format"],
  [code("rate_limit_error"), "RateLimit"],
  [code("insufficient_quota"), "RateLimit", "qwen"],
  [code("MODEL_CAPACITY_EXHAUSTED", 429), "Overloaded"],
  [code("DEADLINE_EXCEEDED"), "Timeout"],
  [code("CANCELLED"), "Cancelled"],
  [code("RESOURCE_EXHAUSTED"), "RateLimit"],
  [code("UNAUTHENTICATED"), "Auth"],
  [code("PERMISSION_DENIED"), "Auth"],
  [code("UNAVAILABLE"), "Overloaded"],
  [code("NOT_FOUND"), "ModelNotFound"],
  [code("INVALID_ARGUMENT"), "Format"],
  [code("INTERNAL"), "ServerError"],

  [name("ExpiredTokenException"), "Auth"],
  [name("ModelTimeoutException"), "Timeout"],
  [name("ModelNotReadyException"), "Overloaded"],
  [name("PaymentRequiredException"), "Billing"],
  [name("ThrottlingException"), "RateLimit"],
  [name("AccessDeniedException"), "Auth"],
  [name("ResourceNotFoundException"), "ModelNotFound"],
  [name("ServiceUnavailableException"), "Overloaded"],
  [name("ValidationException"), "Format"],
  [name("ModelStreamErrorException"), "ServerError"],
  ...[
    "throttlingException",
    "internalServerException",
    "validationException",
    "modelStreamErrorException"
  ].map(
    (member, i) => [code(member), ["RateLimit", "ServerError", "Format", "ServerError"][i] ?? ""] as const
  ),
  [name("AI_NoSuchModelError"), "ModelNotFound"],
  [name("AI_NoSuchProviderError"), "ModelNotFound"],
  [name("AI_NoSuchToolError"), "Format"],
  [name("AI_UnsupportedFunctionalityError"), "Format"],
  [name("AI_NoOutputGeneratedError"), "Format"],
  [name("AI_LoadAPIKeyError"), "Auth"],
  [{ statusCode: 200, responseBody: '{"stop_reason":"refusal","content":[]}' }, "ContentPolicy"],
  [{ statusCode: 200, responseBody: '{"stopReason":"guardrail_intervened"}' }, "ContentPolicy"],
  [{ statusCode: 200, responseBody: '{"promptFeedback":{"blockReason":"OTHER_SAFETY"}}' }, "Format"],
  [name("InternalServerException"), "ServerError"],

  [code("Arrearage", 400), "Billing"],
  [code("DataInspectionFailed", 400), "ContentPolicy"],
  [code("Model.AccessDenied", 403), "ModelNotFound"],
  [code("Workspace.AccessDenied", 400), "Auth"],
  [code("ModelServingError", 500), "Overloaded"],
  [code("RequestTimeOut", 500), "Timeout"],
  [code("Throttling.BurstRate", 200), "RateLimit"],
  [code("InternalError.Algo", 200), "ServerError"],
  [status(407), "PermanentNetwork"],
  [
    { message: "", statusCode: 403, responseHeaders: { "x-squid-error": "ERR_ACCESS_DENIED 0" } },
    "PermanentNetwork"
  ],
  [{ message: "", statusCode: 503, responseHeaders: { "x-squid-error": "ERR_DNS_FAIL 0" } }, "Network"],
  // The cause of an abort says more than the abort.
  [Object.assign(errno("ABORT_ERR"), { cause: errno("ECONNRESET") }), "Network"],
  [Object.assign(errno("UND_ERR_ABORTED"), { cause: errno("UND_ERR_BODY_TIMEOUT") }), "Timeout"],
  [zhipu("1001"), "Auth", "zhipu"],
  [zhipu("1112"), "Auth", "zhipu"],
  [zhipu("1113"), "Billing", "zhipu"],
  [zhipu("1313"), "Billing", "zhipu"],
  [code("2061", 200), "ModelNotFound", "minimax"],
  [code("2064", 500), "Overloaded", "minimax"],
  [code("10110", 200), "Overloaded", "spark"],
  [code("11202", 200), "RateLimit", "xfyun"],
  [code("10907", 200), "ContextOverflow", "iflytek"],
  [code("10013", 200), "ContentPolicy", "xunfei"],
  [code("10300", 200), "Billing", "baichuan"],
  [code("20034", 200), "RateLimit", "hunyuan"],
  [zhipu("1211"), "ModelNotFound", "zhipu"],
  [zhipu("1261"), "ContextOverflow", "zhipu"],
  [zhipu("1214"), "Format", "zhipu"],
  [zhipu("1301"), "ContentPolicy", "zhipu"],
  [zhipu("1302"), "RateLimit", "zhipu"],
  [zhipu("1305"), "Overloaded", "zhipu"],
  [zhipu("1234"), "ServerError", "zhipu"],
  [code("1001", 200), "Timeout", "minimax"],
  [code("1039", 200), "RateLimit", "minimax"],
  [code("2049", 200), "Auth", "minimax"],
  [code("1008", 200), "Billing", "minimax"],
  [code("1013", 200), "ServerError", "minimax"],
  [code("1026", 200), "ContentPolicy", "minimax"],
  [baseResp(1002), "RateLimit"],
  [baseResp(1001), "Timeout"],
  [baseResp(1000), "ServerError"],
  [baseResp(1027), "ContentPolicy"],
  [code("1002"), "Unknown"],
  [baidu(110), "Auth"],
  [baidu(18), "RateLimit"],
  [baidu(19), "Billing"],
  [baidu(336_100), "Overloaded"],
  [baidu(336_000), "ServerError"],
  [baidu(336_001), "Format", "baidu"],
  [baidu(336_103), "ContextOverflow"],
  ["请求超时", "Timeout"],
  ["用户取消", "Cancelled"],
  ["系统内部错误", "ServerError"],
  ["网络异常", "Network"],
  ["参数有误", "Format"],

  [errno("CERT_HAS_EXPIRED"), "PermanentNetwork"],
  [errno("ERR_SSL_WRONG_VERSION_NUMBER"), "PermanentNetwork"],
  [errno("ERR_INVALID_URL"), "PermanentNetwork"],
  [errno("UND_ERR_CONNECT_TIMEOUT"), "Timeout"],
  [errno("UND_ERR_HEADERS_TIMEOUT"), "Timeout"],
  [errno("UND_ERR_BODY_TIMEOUT"), "Timeout"],
  [errno("ETIMEDOUT"), "Timeout"],
  [errno("ERR_CANCELED"), "Cancelled"],
  [Object.assign(new Error("timeout of 30000ms exceeded"), { code: "ECONNABORTED" }), "Timeout"],
  [errno("ECONNRESET"), "Network"],
  [Object.assign(new Error("unexpected end of file"), { code: "Z_BUF_ERROR" }), "Network"],
  [Object.assign(new Error("incorrect header check"), { code: "Z_DATA_ERROR" }), "Network"],
  ["connect to 10.0.0.1 timed out", "Timeout"],

  [code("invalid_request_error"), "Format"],
  [{ ...code("server_error", 200), cause: new Error("Type validation failed") }, "ServerError"],
  [name("AbortError"), "Cancelled"],
  [name("TimeoutError"), "Timeout"],
  [code("timeout_error"), "Timeout"],
  [code("permission_error"), "Auth"],
  [code("not_found_error"), "ModelNotFound"],
  [code("service_unavailable"), "Overloaded"],
  [name("SyntaxError"), "Format"],
  [code("api_error"), "ServerError"],
  ["Request body too large", "ContextOverflow"],
  ["Requests rate limit exceeded", "RateLimit"],
  ["Request rate increased too quickly", "RateLimit"],
  [{ message: "Request body too large, 20 MB", statusCode: 400 }, "ContextOverflow"],
  [{ message: "Provider returned error", statusCode: 400 }, "Unknown"],

  [{ statusCode: 503, message: "", responseHeaders: { "cf-mitigated": "challenge" } }, "PermanentNetwork"],
  [{ statusCode: 400, message: "", responseHeaders: { "x-should-retry": "true" } }, "ServerError"],
  [code("FTUFormNotFilled", 403), "ModelNotFound"],
  [code("tool_use_failed", 400), "Format"],
  [status(402), "Billing"],
  [status(504), "Timeout"],
  [status(401), "Auth"],
  [status(404), "ModelNotFound"],
  [status(413), "ContextOverflow"],
  [status(429), "RateLimit"],
  [status(499), "Cancelled"],
  [status(503), "Overloaded"],
  [status(500), "ServerError"],
  [status(405), "PermanentNetwork"],
  [status(418), "Format"],
  [status(200), "Format"],

  [ai(new AiError.RateLimitError({})), "RateLimit"],
  [ai(new AiError.QuotaExhaustedError({})), "Billing"],
  [ai(new AiError.AuthenticationError({ kind: "InvalidKey" })), "Auth"],
  [ai(new AiError.ContentPolicyError({ description: "" })), "ContentPolicy"],
  [ai(new AiError.InternalProviderError({ description: "" })), "ServerError"],
  [ai(new AiError.InvalidOutputError({ description: "" })), "Format"],
  [ai(new AiError.InvalidRequestError({})), "Format"],
  [ai(new AiError.ToolNotFoundError({ toolName: "t", availableTools: [] })), "Format"],
  [ai(new AiError.ToolParameterValidationError({ toolName: "t", description: "" })), "Format"],
  [ai(new AiError.InvalidToolResultError({ toolName: "t", description: "" })), "Format"],
  [ai(new AiError.ToolResultEncodingError({ toolName: "t", toolResult: 1, description: "" })), "Format"],
  [unreached("TransportError"), "Network"],
  [unreached("EncodeError"), "Format"],
  [unreached("InvalidUrlError"), "PermanentNetwork"]
]

/** Sentences with status 400 about images. Other words in them would decide otherwise. */
export const mediaSentences: ReadonlyArray<string> = [
  "Model mistral-large does not have vision capability",
  "Image input modality is not enabled for models/gemma-3",
  "Total image payload exceeds 50 MB",
  "The images of this message exceed the quota of 20 per request",
  "Expecting value for image_url, got base64 of unknown format"
]
