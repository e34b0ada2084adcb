/**
 * Rules on the exceptions of Amazon Bedrock and of AWS in general. Their names are in `__type`, in the error's
 * name, in the header `x-amzn-errortype` or in the sentence.
 */
import * as Rule from "./Rule.ts"
import {
  auth,
  badRequest,
  billing,
  modelNotFound,
  overloaded,
  rateLimit,
  serverError,
  timeout
} from "./reasons.ts"

const aws = (
  id: string,
  why: string,
  codes: ReadonlyArray<string>,
  reason: Rule.Common["reason"]
): Rule.Rule => Rule.code({ id: `aws/${id}`, why, codes, reason, inText: true })

/** Exceptions with a single meaning. */
export const bedrockDecisive: ReadonlyArray<Rule.Rule> = [
  aws(
    "credentials",
    "The signature or its token is wrong, missing or expired.",
    [
      "ExpiredTokenException",
      "ExpiredToken",
      "UnrecognizedClientException",
      "InvalidSignatureException",
      "SignatureDoesNotMatch",
      "IncompleteSignature",
      "MissingAuthenticationToken",
      "MissingAuthenticationTokenException",
      "InvalidClientTokenId",
      "NotAuthorizedException",
      "CredentialsProviderError",
      "NoCredentialsError",
      "TokenRefreshRequired",
      "CredentialRetrievalError",
      "UnauthorizedSSOTokenError",
      "SSOTokenLoadError",
      "OptInRequired"
    ],
    auth
  ),
  aws(
    "model-timeout",
    "The model took longer than Bedrock allows.",
    ["ModelTimeoutException"],
    timeout.total
  ),
  aws("not-ready", "The model is being loaded.", ["ModelNotReadyException"], overloaded),
  aws(
    "agreement",
    "The account has not agreed to the terms of this one model.",
    ["FTUFormNotFilled", "MPAgreementBeingCreated"],
    modelNotFound
  ),
  aws("unpaid", "The account cannot be charged.", ["PaymentRequiredException"], billing)
]

/** Exceptions with several meanings. */
export const bedrockVague: ReadonlyArray<Rule.Rule> = [
  aws(
    "throttling",
    "Too many requests or tokens for the account.",
    [
      "ThrottlingException",
      "Throttling",
      "ThrottledException",
      "TooManyRequestsException",
      "RequestLimitExceeded",
      "ServiceQuotaExceededException",
      "LimitExceededException"
    ],
    rateLimit
  ),
  aws("denied", "The account may not do this.", ["AccessDeniedException", "AccessDenied"], auth),
  aws(
    "not-found",
    "No such model, profile or provisioned throughput.",
    ["ResourceNotFoundException"],
    modelNotFound
  ),
  aws(
    "unavailable",
    "Bedrock has no capacity.",
    ["ServiceUnavailableException", "ServiceUnavailable"],
    overloaded
  ),
  aws("validation", "The request is invalid.", ["ValidationException", "ValidationError"], badRequest),
  aws(
    "internal",
    "The service or the model failed, possibly mid-stream.",
    ["InternalServerException", "InternalFailure", "ModelErrorException", "ModelStreamErrorException"],
    serverError
  )
]
