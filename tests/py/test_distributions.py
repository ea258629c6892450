"""torch.distributions on the device: samples against scipy's distribution functions (Kolmogorov-Smirnov, chi-square)."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions as D

COUNT = 20000
LIKELY = 1e-4  # seeds are fixed, so a test that passes once passes always


def t(*values):
    return torch.tensor(values, device="tpu").squeeze()


CONTINUOUS = {
    "normal": (lambda: D.Normal(t(1.0), t(2.0)), stats.norm(1, 2)),
    "log_normal": (lambda: D.LogNormal(t(0.3), t(0.5)), stats.lognorm(0.5, scale=np.exp(0.3))),
    "half_normal": (lambda: D.HalfNormal(t(2.0)), stats.halfnorm(scale=2)),
    "uniform": (lambda: D.Uniform(t(-1.0), t(3.0)), stats.uniform(-1, 4)),
    "exponential": (lambda: D.Exponential(t(0.5)), stats.expon(scale=2)),
    "laplace": (lambda: D.Laplace(t(1.0), t(0.7)), stats.laplace(1, 0.7)),
    "gumbel": (lambda: D.Gumbel(t(1.0), t(2.0)), stats.gumbel_r(1, 2)),
    "cauchy": (lambda: D.Cauchy(t(1.0), t(2.0)), stats.cauchy(1, 2)),
    "half_cauchy": (lambda: D.HalfCauchy(t(2.0)), stats.halfcauchy(scale=2)),
    "gamma_small": (lambda: D.Gamma(t(0.3), t(2.0)), stats.gamma(0.3, scale=0.5)),
    "gamma": (lambda: D.Gamma(t(4.5), t(2.0)), stats.gamma(4.5, scale=0.5)),
    "inverse_gamma": (lambda: D.InverseGamma(t(3.0), t(2.0)), stats.invgamma(3, scale=2)),
    "chi2": (lambda: D.Chi2(t(5.0)), stats.chi2(5)),
    "beta": (lambda: D.Beta(t(0.6), t(2.5)), stats.beta(0.6, 2.5)),
    "kumaraswamy": (lambda: D.Kumaraswamy(t(1.0), t(3.0)), stats.beta(1, 3)),
    "student": (lambda: D.StudentT(t(4.0)), stats.t(4)),
    "fisher": (lambda: D.FisherSnedecor(t(6.0), t(8.0)), stats.f(6, 8)),
    "pareto": (lambda: D.Pareto(t(1.5), t(3.0)), stats.pareto(3, scale=1.5)),
    "weibull": (lambda: D.Weibull(t(2.0), t(1.5)), stats.weibull_min(1.5, scale=2)),
    "von_mises": (lambda: D.VonMises(t(0.5), t(3.0)), stats.vonmises(3, loc=0.5)),
    "dirichlet": (lambda: D.Dirichlet(t(1.0, 2.0, 4.0)), stats.beta(1, 6)),
}
DISCRETE = {
    "bernoulli": (lambda: D.Bernoulli(t(0.3)), stats.bernoulli(0.3)),
    "binomial": (lambda: D.Binomial(12, t(0.4)), stats.binom(12, 0.4)),
    "negative_binomial": (lambda: D.NegativeBinomial(t(5.0), t(0.4)), stats.nbinom(5, 0.6)),
    "geometric": (lambda: D.Geometric(t(0.3)), stats.geom(0.3, loc=-1)),
    "poisson": (lambda: D.Poisson(t(4.2)), stats.poisson(4.2)),
    "categorical": (lambda: D.Categorical(t(0.1, 0.2, 0.3, 0.4)), stats.rv_discrete(values=(range(4), (0.1, 0.2, 0.3, 0.4)))),
}


def draw(make):
    torch.manual_seed(11)
    samples = make().sample((COUNT,))
    assert samples.device.type == "tpu"
    return samples.cpu().double().reshape(COUNT, -1)[:, 0].numpy()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    make, truth = CONTINUOUS[name]
    samples = draw(make)
    if name == "von_mises":  # one turn around its own mean on either side
        samples = (samples - 0.5 + np.pi) % (2 * np.pi) - np.pi + 0.5
    assert stats.kstest(samples, truth.cdf).pvalue > LIKELY


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    make, truth = DISCRETE[name]
    samples = draw(make).astype(int)
    top = int(truth.ppf(1 - 1e-3))
    seen = np.bincount(np.minimum(samples, top), minlength=top + 1)
    expected = COUNT * np.append(truth.pmf(np.arange(top)), truth.sf(top - 1))
    keep = expected > 5
    seen, expected = np.append(seen[keep], seen[~keep].sum()), np.append(expected[keep], expected[~keep].sum())
    seen, expected = (seen, expected) if expected[-1] > 0 else (seen[:-1], expected[:-1])
    assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > LIKELY


def test_one_hot_and_multinomial_counts():
    p = t(0.1, 0.2, 0.3, 0.4)
    torch.manual_seed(3)
    one_hot = D.OneHotCategorical(p).sample((COUNT,))
    assert (one_hot.sum(-1) == 1).all().item()
    expected = COUNT * np.array([0.1, 0.2, 0.3, 0.4])
    assert stats.chisquare(one_hot.sum(0).cpu().double().numpy(), expected).pvalue > LIKELY
    counts = D.Multinomial(10, p).sample((500,))
    assert (counts.sum(-1) == 10).all().item()
    assert (counts.float().mean(0).cpu() - 10 * p.cpu()).abs().max() < 0.3


def test_log_probabilities_and_gradients():
    for make, _ in CONTINUOUS.values():
        on_tpu = make()
        x = on_tpu.sample((5,))
        assert torch.isfinite(on_tpu.log_prob(x)).all().item()
    for family in (D.Gamma, D.Beta):
        a = torch.full((4,), 1.5, device="tpu", requires_grad=True)
        family(a, torch.ones(4, device="tpu")).rsample((100,)).mean().backward()
        assert (a.grad > 0).all().item()
