/**
 * Rules on the names of errors at DashScope (Qwen), Volcengine, Tencent Hunyuan and StepFun. `vendorCodes` has the vendors with numbers.
 */
import * as Rule from "./Rule.ts"
import {
  auth,
  billing,
  contentPolicy,
  modelNotFound,
  overloaded,
  rateLimit,
  serverError,
  timeout
} from "./reasons.ts"

const dashScope = (
  id: string,
  why: string,
  codes: ReadonlyArray<string>,
  reason: Rule.Common["reason"]
): Rule.Rule => Rule.code({ id: `dashscope/${id}`, why, codes, reason, inText: true })

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
      "PostpaidBillOverdue",
      "FailedOperation.FreeResourcePackExhausted",
      "FailedOperation.ResourcePackExhausted",
      "FailedOperation.ServiceStopArrears",
      "FailedOperation.ServiceStop",
      "ResourceUnavailable.InArrears"
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
      "OutputTextRiskDetection",
      "InvalidParameter.DataInspection",
      "InputTextSensitiveContentDetected.PolicyViolation",
      "OutputTextSensitiveContentDetected.PolicyViolation",
      "OperationDenied.TextIllegalDetected",
      "OperationDenied.ImageIllegalDetected",
      "censorship_blocked"
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
      "model_not_open",
      "FailedOperation.ServiceNotActivated"
    ],
    modelNotFound
  ),
  dashScope(
    "key",
    "The key or the workspace may not do this.",
    [
      "InvalidApiKey",
      "Workspace.AccessDenied",
      "AccessDenied.Unpurchased",
      "FailedOperation.UserUnAuthError"
    ],
    auth
  ),
  dashScope(
    "serving",
    "The model is temporarily not served.",
    [
      "ModelUnavailable",
      "ModelServingError",
      "ModelLoadingError",
      "ServerOverloaded",
      "InflightBatchsizeExceeded"
    ],
    overloaded
  ),
  dashScope(
    "timeout",
    "The request was not finished in time.",
    ["RequestTimeOut", "ResponseTimeout", "InternalError.Timeout", "FailedOperation.EngineRequestTimeout"],
    timeout.total
  ),
  dashScope(
    "rate",
    "A limit per second or per minute.",
    [
      "Throttling.RateQuota",
      "Throttling.AllocationQuota",
      "Throttling.BurstRate",
      "LimitRequests",
      "RequestBurstTooFast",
      "RateLimitExceeded.EndpointRPMExceeded",
      "RateLimitExceeded.EndpointTPMExceeded",
      "ModelAccountRpmRateLimitExceeded",
      "ModelAccountTpmRateLimitExceeded",
      "ModelAccountIpmRateLimitExceeded",
      "AccountRateLimitExceeded",
      "FailedOperation.EngineServerLimitExceeded"
    ],
    rateLimit
  )
]

/** Names that wrap any error of an engine. The sentence beside them may say more. */
export const chineseVague: ReadonlyArray<Rule.Rule> = [
  Rule.code({
    id: "dashscope/server",
    why: "The platform broke.",
    // Not in sentences: "InternalError.Algo.InvalidParameter" is about the request.
    codes: ["InternalError.Algo", "InternalServiceError", "FailedOperation.EngineServerError"],
    reason: serverError
  })
]
