/**
 * Rules on the codes of DashScope (Qwen), Volcengine, Zhipu, MiniMax and Baidu.
 */
import * as Rule from "./Rule.ts"
import {
  auth,
  badRequest,
  billing,
  contentPolicy,
  contextOverflow,
  modelNotFound,
  overloaded,
  rateLimit,
  revoked,
  serverError,
  timeout
} from "./reasons.ts"

const dashScope = (
  id: string,
  why: string,
  codes: ReadonlyArray<string>,
  reason: Rule.Common["reason"]
): Rule.Rule => Rule.code({ id: `dashscope/${id}`, why, codes, reason, inText: true })

/**
 * Zhipu's codes are numbers. They count only from a provider that is known to use them, or next to Chinese text. A
 * gateway or an unnamed provider may use the small ones differently (1001 closes a WebSocket).
 */
const zhipu = (
  id: string,
  why: string,
  codes: ReadonlyArray<number>,
  reason: Rule.Common["reason"]
): Rule.Rule =>
  Rule.code({
    id: `zhipu/${id}`,
    why,
    codes: codes.map(String),
    when: ({ text }, provider) =>
      /zhipu|z-?ai|glm|bigmodel/.test(provider) ||
      /[\u4e00-\u9fff]|bigmodel|z\.ai/.test(text) ||
      (codes.every((code) => code > 1_100) && /other|proxy/.test(provider)),
    reason
  })

/** MiniMax's codes are numbers, too, inside a successful response. Only MiniMax uses the field `base_resp`. */
const miniMax = (
  id: string,
  why: string,
  codes: ReadonlyArray<number>,
  reason: Rule.Common["reason"]
): Rule.Rule =>
  Rule.code({
    id: `minimax/${id}`,
    why,
    codes: codes.flatMap((code) => [`base_resp/${code}`, String(code)]),
    when: (facts, provider) =>
      provider.includes("minimax") || facts.codes.some((code) => code.startsWith("base_resp/")),
    reason
  })

/** Baidu's codes are numbers, some of them small. They count only from Baidu, or under `error_code`. */
const baidu = (
  id: string,
  why: string,
  codes: ReadonlyArray<number>,
  reason: Rule.Common["reason"]
): Rule.Rule =>
  Rule.code({
    id: `baidu/${id}`,
    why,
    codes: codes.flatMap((code) => [`error_code/${code}`, String(code)]),
    when: ({ codes }, provider) =>
      /baidu|qianfan|wenxin|ernie/.test(provider) || codes.some((code) => code.startsWith("error_code/")),
    reason
  })

export const chineseCodes: ReadonlyArray<Rule.Rule> = [
  dashScope(
    "arrears",
    "The account is overdue, or its free quota or its budget for a model is used up.",
    [
      "Arrearage",
      "SetLimitExceeded",
      "AllocationQuota.FreeTierOnly",
      "AccountOverdueError",
      "AccountOverdue",
      "OperationDenied.ServiceOverdue",
      "CommodityNotPurchased",
      "PrepaidBillOverdue",
      "PostpaidBillOverdue"
    ],
    billing
  ),
  dashScope(
    "inspection",
    "Alibaba's content inspection rejected the input or the output.",
    [
      "DataInspectionFailed",
      "data_inspection_failed",
      "SensitiveContentDetected",
      "RiskControlDetection",
      "InputTextSensitiveContentDetected",
      "OutputTextSensitiveContentDetected",
      "InputTextRiskDetection",
      "InputImageRiskDetection",
      "OutputTextRiskDetection"
    ],
    contentPolicy
  ),
  dashScope(
    "model",
    "No such model here, or no access to it.",
    [
      "ModelNotFound",
      "Model.AccessDenied",
      "ModelNotOpen",
      "InvalidEndpointOrModel.NotFound",
      "InvalidEndpointOrModel.ModelIDAccessDisabled",
      "InvalidEndpoint.ClosedEndpoint",
      "OperationDenied.ServiceNotOpen",
      "model_not_open"
    ],
    modelNotFound
  ),
  dashScope(
    "key",
    "The key or the workspace may not do this.",
    ["InvalidApiKey", "Workspace.AccessDenied", "AccessDenied.Unpurchased"],
    auth
  ),
  dashScope(
    "serving",
    "The model is temporarily not served.",
    ["ModelUnavailable", "ModelServingError", "ServerOverloaded"],
    overloaded
  ),
  dashScope(
    "timeout",
    "The request was not finished in time.",
    ["RequestTimeOut", "ResponseTimeout"],
    timeout.total
  ),
  miniMax("timeout", "1001: not finished in time.", [1001], timeout.total),
  miniMax("rate", "1002 and 1039: requests or tokens per minute.", [1002, 1039], rateLimit),
  miniMax("key", "1004 and 2049: the key is wrong, or not there.", [1004, 2049], auth),
  miniMax("money", "1008: the balance is used up.", [1008], billing),
  miniMax("server", "1000, 1013 and 1033: the platform broke.", [1000, 1013, 1033], serverError),
  miniMax("policy", "1026 and 1027: sensitive input or output.", [1026, 1027], contentPolicy),
  zhipu(
    "key",
    "1000 to 1004 and 1220: the key is missing, wrong, expired or may not do this.",
    [1000, 1001, 1002, 1003, 1004, 1220],
    auth
  ),
  zhipu("account", "1110 to 1112: the account is inactive or locked.", [1110, 1111, 1112], revoked),
  zhipu("money", "1113 and 1309: arrears, or a plan that has ended.", [1113, 1309], billing),
  zhipu(
    "model",
    "1211, 1221, 1222 and 1311: no such model or interface, or not in this plan.",
    [1211, 1221, 1222, 1311],
    modelNotFound
  ),
  zhipu("context", "1261: the prompt is too long.", [1261], contextOverflow),
  zhipu(
    "request",
    "1210 to 1215: a parameter is missing or wrong.",
    [1210, 1212, 1213, 1214, 1215],
    badRequest
  ),
  zhipu("policy", "1301: unsafe content.", [1301], contentPolicy),
  zhipu(
    "rate",
    "1302 to 1304, 1308, 1310 and 1313: concurrency, frequency, and quotas per day, week or window.",
    [1302, 1303, 1304, 1308, 1310, 1313],
    rateLimit
  ),
  baidu(
    "key",
    "6, 13, 14, 110 and 111: the access token is wrong or expired, or may not do this.",
    [6, 13, 14, 110, 111],
    auth
  ),
  baidu(
    "rate",
    "4, 17, 18, 336501 and 336502: per second, minute or day.",
    [4, 17, 18, 336_501, 336_502],
    rateLimit
  ),
  baidu("money", "19: the free calls of the account are used up.", [19], billing),
  baidu("load", "336100: too many callers, try again.", [336_100], overloaded),
  baidu("server", "336000: the platform broke.", [336_000], serverError),
  baidu("request", "336001 to 336003: a field is wrong.", [336_001, 336_002, 336_003], badRequest),
  baidu("context", "336103: the prompt is too long.", [336_103], contextOverflow),
  zhipu("load", "1305 and 1312: the model has too many callers at the moment.", [1305, 1312], overloaded),
  zhipu("server", "1120, 1200, 1230 and 1234: the platform broke.", [1120, 1200, 1230, 1234], serverError)
]
