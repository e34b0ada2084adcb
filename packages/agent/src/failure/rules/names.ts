/**
 * Rules on signals for a family of errors: general codes of bodies, and class names of clients' errors.
 */
import * as Rule from "./Rule.ts"
import {
  auth,
  badRequest,
  badResponse,
  cancelled,
  modelNotFound,
  overloaded,
  serverError,
  timeout,
  unknown
} from "./reasons.ts"

/** True without a more specific status: no status, one below 401, 422 or 500. Others override a general code. */
const vagueOrNone = ({
  status,
  said
}: {
  readonly status: number | undefined
  readonly said: number | undefined
}) => {
  const decisive = said ?? status
  return decisive === undefined || decisive < 401 || decisive === 422 || decisive === 500
}

export const requestNames: ReadonlyArray<Rule.Rule> = [
  Rule.code({
    id: "name/server-inside",
    why: "Inside a successful response the body's own code overrides that of a client that could not parse it.",
    codes: ["server_error", "internal_server_error"],
    when: ({ status }) => status === 200,
    reason: serverError
  }),
  Rule.code({
    id: "name/request",
    why: "Many servers use this name for an invalid request.",
    codes: [
      "invalid_request_error",
      "invalid_request",
      "InvalidParameter",
      "invalid_parameter_error",
      "InvalidRequestError",
      "BadRequestError",
      "UnprocessableEntityError",
      "validation_error",
      "bad_request_error",
      "bad_request"
    ],
    inText: true,
    when: vagueOrNone,
    reason: badRequest
  })
]

/** Wrappers that do not state which error they wrap. */
export const wrappers: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "wrapper/openrouter",
    why: "OpenRouter's sentence for any upstream error. With a 400 the side that failed is unknown.",
    phrases: ["provider returned error"],
    when: ({ message, status }) =>
      /provider returned error\W*$/i.test(message) && (status === undefined || status === 400),
    reason: unknown
  })
]

export const names: ReadonlyArray<Rule.Rule> = [
  Rule.code({
    id: "name/aborted",
    why: "A signal ended the request.",
    codes: ["AbortError", "APIUserAbortError", "CanceledError", "ResponseAborted"],
    inText: true,
    signal: "cause",
    reason: cancelled
  }),
  Rule.code({
    id: "name/timeout",
    why: "The client, or the server, names a time limit.",
    codes: [
      "timeout_error",
      "TimeoutError",
      "APIConnectionTimeoutError",
      "APITimeoutError",
      "timeout",
      "request_timeout"
    ],
    reason: timeout.total
  }),
  Rule.code({
    id: "name/auth",
    why: "The client's class for 401 and 403.",
    codes: ["AuthenticationError", "permission_error", "permission-denied", "unauthorized", "forbidden"],
    inText: true,
    reason: auth
  }),
  Rule.code({
    id: "name/not-found",
    why: "The client's class for 404.",
    codes: ["not_found_error", "NotFoundError", "resource_not_found_error"],
    inText: true,
    reason: modelNotFound
  }),
  Rule.code({
    id: "name/unavailable",
    why: "The client's class for 503.",
    codes: ["BadGatewayError", "ServiceUnavailableError", "service_unavailable", "service_unavailable_error"],
    inText: true,
    reason: overloaded
  }),
  Rule.code({
    id: "name/response",
    why: "The client could not parse the answer.",
    codes: [
      "SyntaxError",
      "JSONDecodeError",
      "AI_JSONParseError",
      "AI_TypeValidationError",
      "ZodError",
      "SchemaError",
      "AI_NoObjectGeneratedError",
      "AI_InvalidResponseDataError",
      "AI_EmptyResponseBodyError",
      "AI_NoContentGeneratedError",
      "AI_NoOutputGeneratedError",
      "OutputParserException",
      "DecodeError",
      "EmptyBodyError"
    ],
    inText: true,
    reason: badResponse
  }),
  Rule.code({
    id: "name/server",
    why: "Many servers use this name for their own failure.",
    codes: [
      "api_error",
      "server_error",
      "internal_error",
      "internal_server_error",
      "InternalServerError",
      "backendError"
    ],
    inText: true,
    when: vagueOrNone,
    reason: serverError
  })
]
