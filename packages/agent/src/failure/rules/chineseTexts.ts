/**
 * Rules on messages in Chinese: Zhipu, Moonshot, Qwen, Volcengine, and one-api and its descendants.
 */
import * as Rule from "./Rule.ts"
import {
  auth,
  badRequest,
  billing,
  cancelled,
  contentPolicy,
  contextOverflow,
  modelNotFound,
  network,
  overloaded,
  rateLimit,
  serverError,
  timeout
} from "./reasons.ts"

const said = (
  id: string,
  why: string,
  phrases: ReadonlyArray<string>,
  reason: Rule.Common["reason"]
): Rule.Rule => Rule.text({ id: `chinese/${id}`, why, phrases, reason })

export const chineseTexts: ReadonlyArray<Rule.Rule> = [
  said(
    "money",
    "The balance, a token's quota or the prepaid amount is too low, or the account is in arrears.",
    [
      "(余额|额度|积分|点数)不足",
      "(余额|额度)(已|)(用尽|耗尽|用完)",
      "预扣费",
      "欠费",
      "请充值",
      "剩余额度",
      "无可用资源包",
      "资源包…(用尽|过期|到期)",
      "套餐…(到期|过期)",
      "账户已过期"
    ],
    billing
  ),
  said(
    "policy",
    "A content filter rejected the request or the answer.",
    [
      "敏感(内容|词|信息|话题)",
      "不安全(|或敏感)内容",
      "内容(安全|审核|审查|过滤)",
      "违规(内容|信息)",
      "被…(过滤|拦截)",
      "涉嫌违规",
      "高风险"
    ],
    contentPolicy
  ),
  said(
    "context",
    "The prompt is too long.",
    [
      "超长",
      "上下文(长度|)(过长|超|太长|溢出)",
      "(输入|提示词|prompt|内容|文本)(长度|)(过长|超长|超过|太长|超出)",
      "超(过|出)…(上下文|最大长度|最大输入|token 限制|tokens 限制)",
      "(token|tokens)(数|数量|)(超|过长|过多)"
    ],
    contextOverflow
  ),
  said(
    "model",
    "The model does not exist here, or no channel serves it.",
    [
      "模型…(不存在|已下线|下架|未开通|不支持访问)",
      "(不支持|没有|无权|未找到|找不到)…模型",
      "无可用(的|)渠道"
    ],
    modelNotFound
  ),
  said(
    "key",
    "The key or token is wrong, expired or disabled.",
    [
      "无效的(令牌|api|key|token|密钥|apikey)",
      "令牌…(无效|过期|禁用|已禁用|不存在|验证失败)",
      "(身份|鉴权|认证|token|签名)(验证|)(失败|过期|不正确)",
      "未提供令牌",
      "(密钥|api key|apikey)(无效|错误|不正确|已过期|不存在)",
      "没有权限",
      "无权(限|访问|使用)",
      "(账号|账户|用户)(已|)(被|)(封禁|禁用|锁定|停用)"
    ],
    auth
  ),
  said(
    "rate",
    "A limit of concurrency or frequency, or one-api's rewrite of an upstream 429.",
    [
      "(并发|频率|频次|请求数|速率|次数)…(过高|过多|超|限制|上限|过快)",
      "请求(过于频繁|过多|太频繁|频繁|次数过多)",
      "上游负载已饱和",
      "(限流|限速)",
      "(已达|达到|超过|超出)…(上限|限额|限制|配额)",
      "调用(过于|太|)频繁",
      "使用上限",
      "(限额|额度|配额)将(在|于)"
    ],
    rateLimit
  ),
  said(
    "load",
    "The provider has too many callers, independent of the account.",
    [
      "(负载|访问量|流量)(过|较|太|已|很)(高|大|饱和|满)",
      "(服务|服务器|系统|模型|引擎|网络)(当前|暂时|)(繁忙|过载|拥挤|忙|不可用|请求量过大)",
      "繁忙",
      "(所有|全部|可用)…(暂时|当前|目前|均)不可用",
      "过载",
      "请求拥挤",
      "拥堵"
    ],
    overloaded
  ),
  said("timeout", "Not finished in time.", ["超时"], timeout.total),
  said("cancelled", "Ended by the caller.", ["(用户|请求|已)(主动|被|)(取消|中止|终止)"], cancelled),
  said(
    "network",
    "No connection.",
    ["(网络|连接)(错误|异常|失败|中断|断开|被重置|重置)", "无法连接"],
    network
  ),
  said("server", "The platform broke.", ["(内部|服务器|服务|系统)(内部|)(错误|异常|出错)"], serverError),
  said(
    "request",
    "A parameter is invalid.",
    [
      "(参数|请求|格式|字段)(格式|体|)(错误|有误|不合法|非法|无效|缺失|不正确)",
      "(不支持|缺少)…(参数|字段|语种|格式|类型)"
    ],
    badRequest
  )
]
